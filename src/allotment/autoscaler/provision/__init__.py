"""Which machines to add for the pods that wait, at what price, and why some pods stay pending."""
