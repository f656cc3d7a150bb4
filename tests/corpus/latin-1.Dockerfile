# Grüße aus der Werkstatt
FROM python:3.12-slim
LABEL maintainer="Jörg"
