"""What a file says beside its sound: tags, pictures, cues, history; kept in what is made of it."""
