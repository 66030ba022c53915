# One image, every role: the command says which. Linted by tests/architecture/test_examples.py, not built in CI.
FROM python:3.11-slim AS build
WORKDIR /build
COPY requirements.lock pyproject.toml README.md LICENSE ./
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY src ./src
RUN /venv/bin/pip install --no-cache-dir --no-deps .

FROM python:3.11-slim
COPY --from=build /venv /venv
RUN useradd --system --create-home --home-dir /data sellerwatch
USER sellerwatch
WORKDIR /data
# Inside a container the loopback is nobody's: whoever runs it decides which port is published.
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 SELLERWATCH_HOST=0.0.0.0 SELLERWATCH_PORT=8080
EXPOSE 8080
# Work in flight finishes or goes back within 10 s of SIGTERM.
STOPSIGNAL SIGTERM
ENTRYPOINT ["sellerwatch"]
CMD ["serve"]
