FROM registry.access.redhat.com/ubi9/python-312:1-25
USER 0
RUN dnf install -y gcc postgresql-devel && dnf clean all
USER 1001
COPY . .
RUN pip install -r requirements.txt
CMD ["python", "app.py"]
