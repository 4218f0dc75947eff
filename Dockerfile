# syntax=docker/dockerfile:1
# docs/operating/install-container.md

FROM node:26-slim AS build
WORKDIR /source
COPY package.json package-lock.json .npmrc ./
COPY console/package.json console/
COPY test/package.json test/
# Without the packages of the tests. Only those have install scripts.
RUN npm ci --ignore-scripts --include-workspace-root --workspace=console
COPY . .
# The npm package has the program, its packages and the console, and nothing else.
RUN npm pack && npm install --offline --prefix /package ./sluice-*.tgz

FROM node:26-slim
COPY --from=build /package/node_modules/sluice /opt/sluice
COPY packaging/container/healthcheck.cjs /opt/sluice/healthcheck.cjs
# Only this directory is written, so the root file system can be read-only. A volume inherits its owner and mode.
RUN ln -s /opt/sluice/packaging/npm/sluice.cjs /usr/local/bin/sluice \
    && install -d -o 10001 -g 10001 -m 700 /var/lib/sluice
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 SLUICE_DATA=/var/lib/sluice SLUICE_LOG_FORMAT=json
USER 10001:10001
WORKDIR /var/lib/sluice
VOLUME /var/lib/sluice
EXPOSE 3000
# The gateway drains on SIGTERM: give it more time than SLUICE_DRAIN_S (docker stop --time 150).
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["node", "/opt/sluice/healthcheck.cjs"]
ENTRYPOINT ["node", "/opt/sluice/packaging/npm/sluice.cjs"]
CMD ["start"]
