"""A user that is never started: what is loaded is Locust's own page."""

from locust import HttpUser, task


class Visitor(HttpUser):
    """Asks for one page."""

    @task
    def page(self):
        """Ask for it."""
        self.client.get("/")
