"""What an embedding knows, measured by simple models whose settings are chosen without the test labels."""
