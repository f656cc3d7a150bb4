FROM python:2.7-slim-buster
RUN pip install "django<2"
RUN ln -s /usr/local/lib/python2.7/site-packages /sp
