"""Files, requests, kills and failing calls that alphamf has to survive."""
