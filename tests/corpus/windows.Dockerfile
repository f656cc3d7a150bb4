FROM python:3.12-windowsservercore-ltsc2022
RUN pip install pywin32
