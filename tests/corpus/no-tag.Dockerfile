FROM python
RUN pip install flask
CMD ["python3.13", "-m", "flask", "run"]
