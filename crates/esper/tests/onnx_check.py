"""Runs an ONNX file with onnxruntime on inputs from standard input, and compares with the outputs expected there.

    python onnx_check.py policy.onnx < '{"inputs": {name: rows}, "outputs": {name: rows}}'
"""

import json
import sys

import numpy
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
given = json.load(sys.stdin)
inputs = {name: numpy.array(rows, numpy.float32) for name, rows in given["inputs"].items()}
names = [output.name for output in session.get_outputs()]
assert sorted(names) == sorted(given["outputs"]), names
assert "esper" in session.get_modelmeta().custom_metadata_map
for name, found in zip(names, session.run(names, inputs)):
    expected = numpy.array(given["outputs"][name], numpy.float32)
    assert found.shape == expected.shape, (name, found.shape, expected.shape)
    difference = (abs(found - expected) / (1 + abs(expected))).max()
    print(f"{name} {found.shape}: largest difference {difference:.1e}")
    assert difference <= 1e-5, (name, difference)
