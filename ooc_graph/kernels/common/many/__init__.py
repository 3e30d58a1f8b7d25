"""What searches from many sources on all devices share."""
