FROM python:3.12

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1

RUN git clone --depth 1 https://git.example.org/tools/mailer.git /opt/mailer \
 && make -C /opt/mailer \
 && pip install /opt/mailer

RUN curl -fsS https://files.example.org/geo.tar.gz | tar xz -C /var/lib
USER nobody
ENTRYPOINT ["mailer"]
HEALTHCHECK --interval=30s CMD curl -f http://localhost:8025/health || exit 1
