FROM python:3.12-slim AS app
COPY <<-"DOCKERFILE" /srv/template/Dockerfile
	# interlock: was nothing of ours
	FROM python:3.8
	RUN pip install --upgrade pip
	DOCKERFILE
RUN cat /srv/template/Dockerfile
