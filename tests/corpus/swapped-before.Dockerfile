# interlock: was python:3.12-slim
FROM interlock/python:3.13-trixie AS app
# interlock: paths were python3.12 -
RUN python3.13 -c 'print(1)' && ls /opt/python3.10
