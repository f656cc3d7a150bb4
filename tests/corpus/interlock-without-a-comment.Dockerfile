FROM interlock/python:3.13-trixie
COPY . .
