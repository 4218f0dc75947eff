// The health check of the container: the gateway must be ready to serve requests.
const { PORT = '3000', SLUICE_BASE_PATH = '', SLUICE_TLS_CERT = '' } = process.env
const { get } = SLUICE_TLS_CERT === '' ? require('node:http') : require('node:https')

const check = get({
  port: PORT,
  path: `${SLUICE_BASE_PATH.replace(/\/+$/, '')}/readyz`,
  timeout: 4_000,
  // The certificate names the gateway, not this address.
  rejectUnauthorized: false,
})
check.on('response', ({ statusCode }) => process.exit(statusCode === 200 ? 0 : 1))
check.on('timeout', () => process.exit(1))
check.on('error', () => process.exit(1))
