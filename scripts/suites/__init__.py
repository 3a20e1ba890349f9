"""Which tests there are, what runs here, how it differs from base, who is told."""
