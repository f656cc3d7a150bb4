FROM $CI_BASE
RUN pip install .
