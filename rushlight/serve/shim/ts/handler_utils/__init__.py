"""What handlers use beside their classes."""
