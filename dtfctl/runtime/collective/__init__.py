"""Groups of devices, of one task or of many, that compute something together without a parameter server."""
