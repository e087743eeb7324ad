"""Live sound: microphones, headphones, and what is heard between them."""
