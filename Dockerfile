# A server of `alphamf serve` for a network: see docs/page.md. Its size: docs/packages.md.
# 3.12.13 on Debian trixie, of 5 August 2026, as docker-library/repo-info lists it.
FROM python:3.12-slim@sha256:229a2c5bfa27522db7815ea81f9bed70af17ccb9de9fc7ad142b1877b5830d36 AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN python -m venv --without-pip /venv \
  && pip --python /venv/bin/python install --no-cache-dir --require-hashes \
    -r /source/.ci/locked/image.txt \
  && pip --python /venv/bin/python install --no-cache-dir --no-deps /source

FROM python:3.12-slim@sha256:229a2c5bfa27522db7815ea81f9bed70af17ccb9de9fc7ad142b1877b5830d36
COPY --from=build /venv /venv
RUN useradd --system --uid 10001 --no-create-home alphamf
USER alphamf
ENV PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
# The token comes as the environment variable ALPHAMF_TOKEN, the host name as --name.
ENTRYPOINT ["alphamf", "serve", "--host", "0.0.0.0", "--port", "8000", "--no-browser"]
