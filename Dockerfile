# One image, every role: the command says which. Linted by tests/architecture/test_examples.py, not built in CI.
FROM python:3.11-slim AS build
WORKDIR /build
COPY requirements.lock requirements-build.lock pyproject.toml README.md LICENSE ./
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY src ./src
# The back-end that builds the package comes from its own lock: without it pip would fetch one without a hash.
RUN python -m venv /build-venv \
    && /build-venv/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock \
    && /build-venv/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /venv/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl

FROM python:3.11-slim
COPY --from=build /venv /venv
RUN useradd --system --uid 10001 --user-group --create-home --home-dir /data sellerwatch
# By number: Kubernetes cannot tell from a name that it is not root.
USER 10001
WORKDIR /data
# Inside a container the loopback is nobody's: whoever runs it decides which port is published.
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 SELLERWATCH_HOST=0.0.0.0 SELLERWATCH_PORT=8080
EXPOSE 8080
# Work in flight finishes or goes back within 10 s of SIGTERM.
STOPSIGNAL SIGTERM
ENTRYPOINT ["sellerwatch"]
CMD ["serve"]
