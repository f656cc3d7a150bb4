

	 FROM	  python:3.12-slim	 AS   app  	

	 RUN	pip install  .

