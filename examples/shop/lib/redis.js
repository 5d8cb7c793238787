'use strict';

const net = require('node:net');

// The little that the shop needs of Redis: commands in order over one
// connection, one reply each. https://redis.io/docs/latest/develop/reference/protocol-spec/

class Redis {
  constructor(socket) {
    this.socket = socket;
    this.waiting = [];
    this.buffer = Buffer.alloc(0);
    socket.on('data', (data) => this.take(data));
    socket.on('close', () => this.fail(new Error('the connection to Redis ended')));
    socket.on('error', (err) => this.fail(err));
  }

  command(...words) {
    return new Promise((resolve, reject) => {
      if (this.socket.destroyed) return reject(new Error('there is no connection to Redis'));
      this.waiting.push({ resolve, reject });
      const parts = words.map((word) => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`);
      this.socket.write(`*${words.length}\r\n${parts.join('')}`);
    });
  }

  take(data) {
    this.buffer = Buffer.concat([this.buffer, data]);
    for (let end = this.buffer.indexOf('\r\n'); end >= 0; end = this.buffer.indexOf('\r\n')) {
      const kind = String.fromCharCode(this.buffer[0]);
      const head = this.buffer.toString('utf8', 1, end);
      let next = end + 2;
      let value = head;
      if (kind === '$' && head !== '-1') {
        next += Number(head) + 2;
        if (this.buffer.length < next) return;
        value = this.buffer.toString('utf8', end + 2, next - 2);
      } else if (kind === '$') {
        value = null;
      }
      this.buffer = this.buffer.subarray(next);
      const { resolve, reject } = this.waiting.shift();
      if (kind === '-') reject(new Error(head));
      else resolve(kind === ':' ? Number(value) : value);
    }
  }

  fail(err) {
    for (const { reject } of this.waiting.splice(0)) reject(err);
  }

  async quit() {
    await this.command('QUIT');
    this.socket.destroy();
  }
}

function connect(port = 6379, host = '127.0.0.1') {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, host, () => {
      socket.removeListener('error', reject);
      resolve(new Redis(socket));
    });
    socket.once('error', reject);
  });
}

module.exports = { connect };
