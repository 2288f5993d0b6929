"""Who is asking, and may they."""
