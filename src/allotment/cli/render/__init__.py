"""What people see on a terminal: tables, texts and pictures."""
