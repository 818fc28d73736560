import { connect, createServer } from 'node:net'

/**
 * idleCutter is a proxy as companies have them: it closes every connection on which no byte moved for a while,
 * in whichever direction. `cut` tells of each what its first line was.
 */
export async function idleCutter({ host, port, afterSeconds }) {
  const cut = []
  const open = new Set()
  const server = createServer((client) => {
    const there = connect(port, host)
    const link = { first: '', socket: false, moved: Date.now(), client, there }
    open.add(link)
    const end = () => {
      open.delete(link)
      client.destroy()
      there.destroy()
    }
    client.on('data', (bytes) => {
      if (!link.first) {
        const head = bytes.toString('latin1')
        link.first = head.slice(0, head.indexOf('\r\n'))
        link.socket = /^upgrade: *websocket/im.test(head)
      }
      link.moved = Date.now()
    })
    there.on('data', () => {
      link.moved = Date.now()
    })
    client.pipe(there)
    there.pipe(client)
    for (const side of [client, there]) side.on('error', end).on('close', end)
  })
  const sweep = setInterval(() => {
    for (const link of open) {
      const quiet = (Date.now() - link.moved) / 1000
      if (quiet < afterSeconds) continue
      cut.push({ first: link.first, socket: link.socket, quiet })
      link.client.destroy()
      link.there.destroy()
    }
  }, 500)
  await new Promise((done) => server.listen(0, '127.0.0.1', done))
  return {
    port: server.address().port,
    cut,
    sockets: () => [...open].filter((l) => l.socket).length,
    close() {
      clearInterval(sweep)
      for (const link of open) link.client.destroy()
      server.close()
    },
  }
}
