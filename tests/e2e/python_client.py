"""A ps as Python sees it: plain protobuf messages over grpcio, nothing of ours.

python_client.py ADDRESS DESCRIPTORS LOAD_REQUEST EXCHANGE_REQUEST EXCHANGE_OUT
ADDRESS          of a paracord-ps that holds nothing
DESCRIPTORS      protoc --descriptor_set_out of proto/paracord.proto
LOAD_REQUEST     a LoadRequest without a fence: one matrix of float32 zeros, SGD with rate 1
EXCHANGE_REQUEST an ExchangeRequest as the C++ side encodes it; written again to EXCHANGE_OUT

Leaves with 77 where grpcio or protobuf is missing.
"""

import struct
import sys

try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)


def load_messages(path):
    files = descriptor_pb2.FileDescriptorSet()
    with open(path, "rb") as file:
        files.ParseFromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)

    def message(name):
        descriptor = pool.FindMessageTypeByName("paracord." + name)
        if hasattr(message_factory, "GetMessageClass"):
            return message_factory.GetMessageClass(descriptor)
        return message_factory.MessageFactory(pool).GetPrototype(descriptor)

    return message


def main():
    address, descriptors, load_path, request_path, out_path = sys.argv[1:]
    message = load_messages(descriptors)
    channel = grpc.insecure_channel(
        address, options=[("grpc.max_receive_message_length", 64 << 20)]
    )

    def call(method, request, reply):
        stub = channel.unary_unary(
            "/paracord.ParameterServer/" + method,
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=message(reply).FromString,
        )
        return stub(request, timeout=20, wait_for_ready=True)

    def exchange(parts):
        stub = channel.stream_stream(
            "/paracord.ParameterServer/Exchange",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=lambda b: b,
        )
        whole = b"".join(stub(iter(parts), timeout=20))
        return message("ExchangeReply").FromString(whole)

    # What the C++ side encoded by hand is the message, and goes back as it is.
    with open(request_path, "rb") as file:
        sent = message("ExchangeRequest").FromString(file.read())
    assert sent.worker == "worker:0" and len(sent.pieces) == 3, sent
    assert sent.pieces[2].data[-4:] == struct.pack("<f", 2.5)
    with open(out_path, "wb") as file:
        file.write(sent.SerializeToString())

    state = call("Describe", message("DescribeRequest")(), "PsDescription")
    adopt = message("AdoptRequest")(
        boot_id=state.boot_id, generation=1, coordinator_boot_id="python", protocol=state.protocol
    )
    call("Adopt", adopt, "PsDescription")
    load = message("LoadRequest")()
    with open(load_path, "rb") as file:
        load.ParseFromString(file.read())
    load.coordinator_boot_id = "python"
    load.fence.run_id = "0" * 32
    load.fence.generation = 1
    load.fence.boot_id = state.boot_id
    load.fence.protocol = state.protocol
    call("Load", load, "PsDescription")

    # A push in two messages of the stream and of odd pieces, and a pull of what it makes.
    elements = load.variables[0].shape[0] * load.variables[0].shape[1]
    gradient = struct.pack("<%df" % elements, *[i % 1000 for i in range(elements)])
    request = message("ExchangeRequest")
    first = request(fence=load.fence, worker="worker:python")
    first.batch.split = 0
    first.push.add(partition=0, bytes=len(gradient))
    first.pull.add(partition=0)
    first.pieces.add(partition=0, offset=0, data=gradient[:1001])
    rest = request()
    rest.pieces.add(partition=0, offset=1001, data=gradient[1001:])
    reply = exchange([first, rest])
    assert reply.partitions[0].outcome == 1, reply.partitions
    values = bytearray(len(gradient))
    for piece in reply.pieces:
        values[piece.offset : piece.offset + len(piece.data)] = piece.data
    pulled = struct.unpack("<%df" % elements, bytes(values))
    assert all(pulled[i] == -float(i % 1000) for i in range(elements))
    assert reply.partitions[0].bytes == len(values) and reply.partitions[0].updates == 1

    # The same values as bf16, which is the upper half of a float.
    pull = request(fence=load.fence, worker="worker:python")
    pull.pull.add(partition=0, encoding=1)
    reply = exchange([pull])
    halves = b"".join(p.data for p in sorted(reply.pieces, key=lambda p: p.offset))
    assert struct.unpack_from("<H", halves, 2)[0] == 0xBF80, halves[:8]  # -1
    assert len(halves) == 2 * elements

    # Rows 3 and 5 alone, and what they and row 4 are then. Ids are the first, then how many are
    # left out before each next one.
    width = load.variables[0].shape[1]
    rows = request(fence=load.fence, worker="worker:python")
    rows.batch.batch = 1
    some = struct.pack("<%df" % (2 * width), *([0.5] * 2 * width))
    push = rows.push.add(partition=0, bytes=len(some))
    push.rows.count, push.rows.bytes = 2, 2
    pull = rows.pull.add(partition=0, known_version=2)
    pull.rows.count, pull.rows.bytes = 3, 3
    rows.pieces.add(partition=0, offset=0, data=bytes([3, 1]), part=1)  # PUSH_IDS
    rows.pieces.add(partition=0, offset=0, data=bytes([3, 0, 0]), part=2)  # PULL_IDS
    rows.pieces.add(partition=0, offset=0, data=some)
    reply = exchange([rows])
    assert reply.partitions[0].updates == 2 and reply.partitions[0].bytes == 3 * 4 * width
    got = b"".join(p.data for p in sorted(reply.pieces, key=lambda p: p.offset))
    got = struct.unpack("<%df" % (3 * width), got)
    for i, value in enumerate(got):
        before = pulled[3 * width + i]
        assert value == before - (0.5 if i // width != 1 else 0), (i, value, before)
    print("ok: %d elements" % elements)


if __name__ == "__main__":
    main()
