// Restricts a server that binds all interfaces to the loopback interface: `node --import ./loopback.mjs SERVER`.

import net from 'node:net';

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
    // Neither a host nor an options object: Node would bind every interface.
    const everywhere = ['number', 'string'].includes(typeof port) && typeof rest[0] !== 'string';
    return everywhere ? listen.call(this, port, '127.0.0.1', ...rest) : listen.call(this, port, ...rest);
};
