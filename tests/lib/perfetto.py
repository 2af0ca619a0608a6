# SPDX-License-Identifier: BSD-2-Clause
"""
Reads Perfetto traces: a packet is {field: [values]}, with messages as bytes. Checks that all referenced IDs were
defined before, that an interned string keeps its ID, and that each slice end has a begin.
"""
import collections
import zlib


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Returns {number: [value, ...]} of a message of numbers and bytes."""
    found, at = collections.defaultdict(list), 0
    while at < len(data):
        key, at = varint(data, at)
        assert key & 7 in (0, 1, 2), key
        if key & 7 == 1:
            value, at = int.from_bytes(data[at : at + 8], "little"), at + 8
        else:
            value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        assert at <= len(data)
        found[key >> 3].append(value)
    return found


def packets(data):
    for packet in fields(data)[1]:
        packet = fields(packet)
        if 50 in packet:
            assert len(packet[50][0]) <= 512 << 10  # trace_packet.proto, compressed_packets
            yield from packets(zlib.decompress(packet[50][0]))
        else:
            yield packet


def number(message, field, otherwise=0):
    return message[field][0] if message[field] else otherwise


Slice = collections.namedtuple("Slice", "tid name start ns depth arguments")
Wake = collections.namedtuple("Wake", "tid time_ns arguments flow")
Sample = collections.namedtuple("Sample", "time_ns pid tid frames weight_ns")


class Trace:
    """
    A trace: slices that ended, instants, samples with the names of frames (outermost first), threads {tid: (pid,
    name)}. From the tracks of waits: waits (slices), wakes, and flows that end {id: (tid, when)}. From the tracks of slow
    requests: requests (slices) and instants, which have the names of their tracks, from the outermost, as tid.
    """

    def __init__(self, data):
        self.waits, self.wakes, self.flow_begins, self.flow_ends, self.of_waits = [], [], set(), {}, set()
        self.slices, self.requests, self.instants, self.samples, self.threads, self.open = [], [], [], [], {}, 0
        self.clocks, self.system, self.kinds = {}, None, {}
        tracks, sequences = {}, collections.defaultdict(lambda: {"names": {}, "time": 0})
        self.stacks = collections.defaultdict(list)  # by track, which may have several sequences
        for packet in packets(data):
            sequence = sequences[number(packet, 10)]
            for snapshot in map(fields, packet[6]):
                clocks = [(number(c, 1), number(c, 2)) for c in map(fields, snapshot[1])]
                sequence["time"] = dict(clocks).get(64, 0)
                self.clocks.update(clocks)
            for defaults in map(fields, packet[59]):
                for events in map(fields, defaults[11]):
                    sequence["track"] = events[11][0]
            for interned in map(fields, packet[12]):
                for kind, values in interned.items():
                    for value in map(fields, values):
                        assert sequence["names"].setdefault((kind, value[1][0]), value) == value
            if packet[45]:
                self.system = {k: v[0].decode() for k, v in fields(fields(packet[45][0])[1][0]).items()}
            for track in map(fields, packet[60]):
                for thread in map(fields, track[4]):
                    self.threads[thread[2][0]] = (thread[1][0], thread[5][0].decode())
                    tracks[track[1][0]] = thread[2][0]
                if track[2] == [b"Waits"]:
                    tracks[track[1][0]] = tracks[track[5][0]]
                    self.of_waits.add(track[1][0])
                elif track[2]:
                    tracks[track[1][0]] = (*(tracks[track[5][0]] if track[5] else ()), track[2][0].decode())
            for sample in map(fields, packet[135]):
                self._sample(packet, sequence["names"], sample)
            for event in map(fields, packet[11]):
                sequence["time"] += number(packet, 8)
                self._event(tracks[sequence["track"]], sequence, event, sequence["track"] in self.of_waits)
        assert self.flow_ends.keys() <= self.flow_begins
        self.open = sum(map(len, self.stacks.values()))

    def _sample(self, packet, names, sample):
        task, frames = fields(sample[1][0]), []
        for iid in names[7, sample[6][0]][2] if sample[6] else []:
            frame = names[6, iid]
            name = names[5, frame[2][0]][2][0].decode()
            self.kinds[name] = frame[8][0].decode() if frame[8] else frame[7][0]
            frames.append(name)
        self.samples.append(Sample(packet[8][0], task[2][0], task[3][0], tuple(frames), sample[11][0]))

    def _event(self, tid, sequence, event, is_wait):
        names, stack = sequence["names"], self.stacks[sequence["track"]]
        arguments = {
            names[3, a[1][0]][2][0].decode(): a[3][0] if a[3] else a[6][0].decode() for a in map(fields, event[4])
        }
        name = names[2, event[10][0]][2][0].decode() if event[10] else None
        for flow in event[47]:
            assert flow not in self.flow_begins
            self.flow_begins.add(flow)
        for flow in event[48]:
            assert self.flow_ends.setdefault(flow, (tid, sequence["time"])) == (tid, sequence["time"])
        if event[9] == [1]:
            stack.append((name, sequence["time"], arguments))
        elif event[9] == [2]:
            name, start, given = stack.pop()
            (self.waits if is_wait else self.requests if isinstance(tid, tuple) else self.slices).append(Slice(tid, name, start, sequence["time"] - start, len(stack), given | arguments))
        elif is_wait:
            assert name == "wakes"
            self.wakes.append(Wake(tid, sequence["time"], arguments, event[47][0]))
        else:
            self.instants.append((tid, name, sequence["time"], arguments))
