FROM nogil/python:3.9-slim
RUN pip install numpy
