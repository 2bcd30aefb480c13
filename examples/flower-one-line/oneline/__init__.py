"""An ordinary Flower app with one added line."""
