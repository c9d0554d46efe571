# SPDX-License-Identifier: Apache-2.0
"""Turns values of Arrow columns into JSON: finds columns that hold JSON as text, and values that have no form in JSON."""
import datetime
import decimal
import json
import uuid


class JsonError(ValueError):
    """A value that cannot be written; the message names its column."""


def without_form(reason):
    """Stands for a value that JSON has no form for: an object that no reader takes for text, a number or a list."""
    return {"no form in JSON": reason}


class RowWriter:
    """Rows, as dicts of Python values, to lines of JSON.

    names: the columns to read. formless: pairs of a column or field, such as `images[].bytes`, and its type, for whose
    values without_form() stands.
    """

    def __init__(self, columns, formless):
        self.names = [name for name, _ in columns]
        self.formless = formless
        self._converters = [(name, convert) for name, convert in columns if convert]

    def line(self, row):
        for name, convert in self._converters:
            try:
                row[name] = convert(row[name])
            except ValueError as error:
                raise JsonError(f"column {name}: {error}") from error
        return json.dumps(row, ensure_ascii=False, default=plain)


def row_writer(schema, json_leaves, names):
    """The RowWriter for these columns of a schema of Arrow.

    json_leaves says of each leaf column of a Parquet file whether Parquet's type says JSON; None for other files. Where an
    older pyarrow does not know the type arrow.json, the metadata of the field or the features of `datasets` say it.
    """
    leaves = iter(json_leaves) if json_leaves is not None else None
    features = features_of(schema)
    columns, formless = [], []
    for field in schema:
        is_read = field.name in names
        notes = formless if is_read else []
        convert = converter(field.type, is_json_field(field), features.get(field.name), leaves, field.name, notes)
        if is_read:
            columns.append((field.name, convert))
    return RowWriter(columns, formless)


def features_of(schema):
    """The features that `datasets` writes with its files, by column."""
    text = (schema.metadata or {}).get(b"huggingface")
    if not text:
        return {}
    features = json.loads(text).get("info", {}).get("features")
    return features if isinstance(features, dict) else {}


def is_json_field(field):
    return (field.metadata or {}).get(b"ARROW:extension:name") == b"arrow.json"


def element_feature(feature):
    """The feature of a list's elements: {"_type": "List", "feature": ...}, or [...] in older versions of `datasets`."""
    if isinstance(feature, list) and feature:
        return feature[0]
    return feature.get("feature") if isinstance(feature, dict) else None


def converter(arrow_type, is_json, feature, leaves, place, formless):
    """A function of a value that gives one for json.dumps; None where the value can stay. Takes from `leaves` one element for
    each leaf below, and adds to `formless` the fields below that have no form in JSON."""
    import pyarrow.types as kinds

    is_json = is_json or (isinstance(feature, dict) and feature.get("_type") == "Json")
    extension = getattr(arrow_type, "extension_name", None)
    if extension == "arrow.uuid":
        skip_leaf(leaves)
        return None
    if extension is not None:
        is_json = is_json or extension == "arrow.json"
        return converter(arrow_type.storage_type, is_json, None, leaves, place, formless)
    if kinds.is_dictionary(arrow_type):
        return converter(arrow_type.value_type, is_json, feature, leaves, place, formless)
    if kinds.is_struct(arrow_type):
        return struct_converter(arrow_type, feature, leaves, place, formless)
    if kinds.is_map(arrow_type):
        return map_converter(arrow_type, leaves, place, formless)
    if is_any(kinds, arrow_type, "list", "large_list", "fixed_size_list", "list_view", "large_list_view"):
        field = arrow_type.value_field
        convert = converter(field.type, is_json_field(field), element_feature(feature), leaves, place + "[]", formless)
        return convert and (lambda values: values and [convert(value) for value in values])
    if skip_leaf(leaves) or is_json:
        return decode
    if is_any(kinds, arrow_type, "binary", "large_binary", "fixed_size_binary", "binary_view", "duration", "interval"):
        formless.append((place, str(arrow_type)))
        return lambda value: value if value is None else without_form(str(arrow_type))
    return None


def skip_leaf(leaves):
    """Takes the next leaf column; whether its type is JSON."""
    return leaves is not None and next(leaves)


def is_any(kinds, arrow_type, *names):
    """Whether it is one of these types, of which an older pyarrow does not know all."""
    return any(getattr(kinds, "is_" + name)(arrow_type) for name in names if hasattr(kinds, "is_" + name))


def struct_converter(arrow_type, feature, leaves, place, formless):
    converters = []
    for i in range(arrow_type.num_fields):
        field = arrow_type.field(i)
        of_field = feature.get(field.name) if isinstance(feature, dict) else None
        convert = converter(field.type, is_json_field(field), of_field, leaves, f"{place}.{field.name}", formless)
        if convert:
            converters.append((field.name, convert))
    if not converters:
        return None

    def convert_struct(value):
        if value is not None:
            for name, convert in converters:
                value[name] = convert(value[name])
        return value

    return convert_struct


def map_converter(arrow_type, leaves, place, formless):
    """Maps with keys of text are objects, others lists of pairs."""
    import pyarrow.types as kinds

    is_key_json = skip_leaf(leaves)
    field = arrow_type.item_field
    convert = converter(field.type, is_json_field(field), None, leaves, place + "{}", formless)
    if is_any(kinds, arrow_type.key_type, "string", "large_string", "string_view") and not is_key_json:
        collect = dict
    else:
        collect = list

    def convert_map(pairs):
        return pairs if pairs is None else collect((key, convert(item) if convert else item) for key, item in pairs)

    return convert_map


def decode(text):
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"its type is JSON, and its text is not ({error})") from error


def plain(value):
    """A form for the values that json.dumps does not know."""
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if hasattr(value, "tolist"):  # numpy's, as half precision is in older versions of pyarrow
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")
