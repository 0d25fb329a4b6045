"""Pages and screens: written, opened in a real browser, checked."""
