"""An S3 to test against: moto's server, which checks signatures, behind faults if asked for.

Usage: s3_server.py [SHARE [SEED [HOST]]]. Of the requests SHARE (0) each meet an error before they
are carried out, the advice to slow down, an error after it (the answer is lost), a connection that
is closed after it, silence after it, and a pause. It listens at HOST (127.0.0.1).
Prints one line of JSON: endpoint, bucket, key_id, secret. Ends when its standard input ends.
"""
import json
import os
import random
import socket
import sys
import threading
import time

os.environ.setdefault("INITIAL_NO_AUTH_ACTION_COUNT", "6")
os.environ.update(AWS_ACCESS_KEY_ID="first", AWS_SECRET_ACCESS_KEY="first",
                  AWS_DEFAULT_REGION="us-east-1")
import logging

import boto3
import flask
from moto.iam.access_control import S3IAMRequest
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

POLICY = {"Version": "2012-10-17",
          "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


# moto would check the signature of the decoded address, which nobody has signed.
make_aws_request = S3IAMRequest._create_aws_request


def aws_request_as_it_came(self):
    self._path = flask.request.environ["RAW_URI"]
    return make_aws_request(self)


S3IAMRequest._create_aws_request = aws_request_as_it_came


class Faults:
    """Around the application; none until `share` is set."""

    NAMES = ("error", "slow down", "lost", "closed", "silent", "pause")

    def __init__(self, application, seed):
        self.application, self.share, self.random = application, 0.0, random.Random(seed)
        self.lock, self.counts = threading.Lock(), {}

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"] == "/faults":  # how many requests have met which
            with self.lock:
                body = json.dumps(self.counts).encode()
            start_response("200 OK", [("Content-Length", str(len(body)))])
            return [body]
        with self.lock:
            draw = self.random.random()
        fault = int(draw / self.share) if self.share > 0 else len(self.NAMES)
        name = self.NAMES[fault] if fault < len(self.NAMES) else ""
        with self.lock:
            self.counts[name] = self.counts.get(name, 0) + 1
        if name == "error":
            return self.refuse(environ, start_response, "500 Internal Server Error")
        if name == "slow down":
            return self.refuse(environ, start_response, "503 Slow Down")
        if name in ("lost", "closed", "silent"):  # done, and nobody hears of it
            for _ in self.application(environ, lambda *_: None):
                pass
            if name == "lost":
                return self.refuse(environ, start_response, "500 Internal Server Error")
            if name == "closed":
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionError("the answer is lost")  # the server goes on reading
        if name == "pause":
            time.sleep(0.5)
        return self.application(environ, start_response)

    @staticmethod
    def refuse(environ, start_response, code):
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        body = b"<Error><Code>InternalError</Code><Message>try again</Message></Error>"
        start_response(code, [("Content-Length", str(len(body)))])
        return [body]


def main():
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    host = sys.argv[3] if len(sys.argv) > 3 else "127.0.0.1"
    logging.getLogger("werkzeug").disabled = True
    application = Faults(DomainDispatcherApplication(create_backend_app), seed)
    server = make_server(host, 0, application, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = "http://%s:%d" % (host, server.server_port)
    iam = boto3.client("iam", endpoint_url=endpoint)
    iam.create_user(UserName="job")
    key = iam.create_access_key(UserName="job")["AccessKey"]
    iam.put_user_policy(UserName="job", PolicyName="all", PolicyDocument=json.dumps(POLICY))
    boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket="bucket")
    for _ in range(2):  # the rest of those that need no signature
        iam.get_user(UserName="job")
    application.share = share
    print(json.dumps({"endpoint": endpoint, "bucket": "bucket", "key_id": key["AccessKeyId"],
                      "secret": key["SecretAccessKey"]}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
