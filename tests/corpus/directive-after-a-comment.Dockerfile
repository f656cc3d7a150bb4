# An ordinary comment ends the directives.
# escape=`
FROM python:3.12-slim
RUN echo a \
 && echo b
