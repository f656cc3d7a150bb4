"""What production needs besides: a key that is no secret, because this site has none, and the name it answers to."""

SECRET_KEY = "an example"
ALLOWED_HOSTS = ["site.example"]
