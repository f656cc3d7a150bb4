FROM python:3.6-onbuild
CMD ["python", "app.py"]
