// SPDX-License-Identifier: Apache-2.0
// What S3 has and s3rver lacks; loaded before it (node --require). Requests of uploads in parts: which are not complete
// (GET ?uploads), and an end to one (DELETE ?uploadId). And an object is there as a whole or not at all: s3rver writes it
// in place, so that one that is killed leaves a part. S3RVER_FOLDER is its folder, in which it keeps the parts of uploads.
'use strict';
const fs = require('fs');
const http = require('http');
const path = require('path');
const { Writable } = require('stream');

let objects = 0;

class WholeObject extends Writable {
  constructor(name) {
    const partial = `${process.env.S3RVER_FOLDER}.partial`;
    super();
    fs.mkdirSync(partial, { recursive: true });
    this.name = name;
    this.partial = path.join(partial, `${process.pid}.${objects++}`);
    this.fd = fs.openSync(this.partial, 'w');
  }

  _write(chunk, encoding, done) {
    for (let at = 0; at < chunk.length;) at += fs.writeSync(this.fd, chunk, at);
    done();
  }

  _final(done) {
    fs.closeSync(this.fd);
    fs.renameSync(this.partial, this.name);
    done();
  }
}

const { createWriteStream } = fs;
fs.createWriteStream = (name, ...more) =>
  `${name}`.endsWith('._S3rver_object') ? new WholeObject(name) : createWriteStream(name, ...more);

const folder = bucket => path.join(process.env.S3RVER_FOLDER, bucket, '._S3rver_uploads');

function list(bucket, prefix) {
  const uploads = fs.existsSync(folder(bucket)) ? fs.readdirSync(folder(bucket)) : [];
  return uploads.map(id => {
    const file = path.join(folder(bucket), id, 'key');
    const key = fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '';
    const initiated = fs.statSync(path.join(folder(bucket), id)).mtime.toISOString();
    return key !== '' && key.startsWith(prefix)
      ? `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>${initiated}</Initiated></Upload>`
      : '';
  }).join('');
}

// True: the request was answered.
function answer(request, response) {
  const url = new URL(request.url, 'http://localhost');
  const [, bucket] = url.pathname.split('/');
  const id = url.searchParams.get('uploadId') || '';
  if (request.method === 'GET' && url.searchParams.has('uploads')) {
    response.setHeader('content-type', 'application/xml');
    response.end(`<?xml version="1.0"?><ListMultipartUploadsResult>${list(bucket, url.searchParams.get('prefix') || '')}` +
      '<IsTruncated>false</IsTruncated></ListMultipartUploadsResult>');
    return true;
  }
  if (request.method === 'DELETE' && /^[0-9a-f]+$/.test(id)) {
    const upload = path.join(folder(bucket), id);
    response.statusCode = fs.existsSync(upload) ? 204 : 404;
    fs.rmSync(upload, { recursive: true, force: true });
    response.end();
    return true;
  }
  return false;
}

const { emit } = http.Server.prototype;
http.Server.prototype.emit = function (event, request, response) {
  return event === 'request' && answer(request, response) ? true : emit.apply(this, arguments);
};
