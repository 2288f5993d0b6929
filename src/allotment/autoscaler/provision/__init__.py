"""Which machines to add for waiting pods, at what price, and why some pods stay pending."""
