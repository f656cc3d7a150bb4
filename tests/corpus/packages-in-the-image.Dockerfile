FROM localhost/library/python:3.13-slim
RUN mkdir -p /usr/local/lib/python3.13/site-packages && \
    echo 'word = 42' > /usr/local/lib/python3.13/site-packages/mod.py
CMD ["python3", "-c", "import mod; print(mod.word, mod.__file__)"]
