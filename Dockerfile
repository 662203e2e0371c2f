# Both programs in one image; the chart says which one a container runs.
# For a build that can be repeated, give the base by digest: --build-arg PYTHON_IMAGE=python@sha256:...
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore SOURCE_DATE_EPOCH=0
WORKDIR /source
RUN python -m venv --without-pip /opt/muster
COPY requirements.lock requirements-build.lock ./
RUN pip --python /opt/muster install --require-hashes --only-binary :all: -r requirements.lock \
    && pip install --require-hashes --only-binary :all: -r requirements-build.lock
COPY pyproject.toml setup.py README.md LICENSE ./
COPY scheduler_core scheduler_core
COPY webhook webhook
COPY kubectl_plugin kubectl_plugin
COPY sandbox sandbox
COPY charts/muster/crds charts/muster/crds
COPY charts/muster/rbac charts/muster/rbac
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/muster install --no-deps --no-index /wheels/*.whl

FROM ${PYTHON_IMAGE}
ENV PATH=/opt/muster/bin:${PATH} PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp
COPY --from=build /opt/muster /opt/muster
USER 65532:65532
WORKDIR /tmp
EXPOSE 9443 10259
CMD ["muster-scheduler"]
