FROM continuumio/miniconda3:24.7.1-0
RUN conda create -n app python=3.12
