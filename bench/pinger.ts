import { connect } from 'node:net'

/**
 * A separate process that requests `/healthz` every millisecond over one connection, one request at a time. A line on
 * standard input ends a phase: it prints the longest response time since the last one, in milliseconds.
 */
const PERIOD_MS = 1
const { hostname, port } = new URL(process.argv[2] ?? '')
const socket = connect(Number(port), hostname).setNoDelay(true)
const QUESTION = `GET /healthz HTTP/1.1\r\nhost: ${hostname}\r\n\r\n`
let askedMs = 0
let mostMs = 0
let count = 0

const waitedMs = () => (askedMs > 0 ? performance.now() - askedMs : 0)

socket.on('data', () => {
  mostMs = Math.max(mostMs, waitedMs())
  count += 1
  askedMs = 0
})
socket.once('close', () => process.exit(0))
socket.once('connect', () => {
  setInterval(() => {
    if (askedMs > 0) return
    askedMs = performance.now()
    socket.write(QUESTION)
  }, PERIOD_MS)
  process.stdin.on('data', () => {
    console.log(JSON.stringify({ mostMs: Math.max(mostMs, waitedMs()), count }))
    mostMs = 0
    count = 0
  })
  process.stdin.once('end', () => process.exit(0))
})
