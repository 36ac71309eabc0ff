# One image: the placement service, its controller, and placementctl beside them.
#
#   docker run --rm -p 127.0.0.1:50051:50051 -e PLACEMENT_ALLOW_PLAINTEXT=true placement-service
#   docker run --rm --entrypoint placement-controller placement-service --help
#   docker run --rm -i --entrypoint placementctl placement-service plan -f - < objects.yaml
#
# The Python that the tests run on, for all platforms. The digest decides, the tag is for people.
# Renew both with what "docker buildx imagetools inspect python:3.11-slim" gives as Digest;
# "make image PYTHON_IMAGE=..." takes another one for once.
ARG PYTHON=python:3.11.17-slim-trixie@sha256:45037981b62b34b44602584fccbc4d884d5f7dc92c7ee86bb38a698a79fe1e51

FROM ${PYTHON} AS build
WORKDIR /src
# What is installed is locked by hash, what builds it too (make lock).
COPY requirements requirements
RUN python -m venv /opt/placement \
 && python -m venv /opt/build \
 && /opt/placement/bin/pip install --no-cache-dir --require-hashes -r requirements/service.txt \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/build.txt
COPY . .
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/placement/bin/pip install --no-cache-dir --no-deps /wheels/*.whl

FROM ${PYTHON}
# The environment keeps its path, because its scripts name it.
COPY --from=build /opt/placement /opt/placement
ENV PATH=/opt/placement/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PLACEMENT_HOST=0.0.0.0
# Reached from outside or not at all; so it wants certificates, or to be told that it needs
# none (docs/operations.md, TLS).
# By number, so that Kubernetes can tell that it is not root. Nothing is written to disk
# unless PLACEMENT_DUMP_DIR names a volume, so the root file system may be read-only.
USER 65532:65532
EXPOSE 50051
# For engines without probes of their own.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["python", "-m", "placement_service.api.healthcheck"]
ENTRYPOINT ["placement-service"]
