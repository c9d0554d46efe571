// SPDX-License-Identifier: Apache-2.0
// Attributes. Texts are written as UTF-8 of their own length: HDF5 keeps those of variable length in a heap without
// checksums. Numbers are int64 or float64. Read is any one text or number, whoever wrote it.

#include <fmt/core.h>
#include <algorithm>

#include "hdf5_impl.hpp"

namespace sft::io {

namespace {

const char* object_path(const std::string& object) { return object.empty() ? "/" : object.c_str(); }

std::string describe(const std::string& name, const std::string& object) {
  return fmt::format("the attribute {}{}", name, (object.empty() ? "" : " of " + object));
}

}  // namespace

Handle Hdf5File::Impl::attribute(const std::string& name, const std::string& object, bool is_string) const {
  const std::string described = describe(name, object);
  if (H5Aexists_by_name(file.id(), object_path(object), name.c_str(), H5P_DEFAULT) <= 0) {
    fail_because("cannot find " + described, "it is not there", "check that the file is what it should be");
  }
  Handle opened(H5Aopen_by_name(file.id(), object_path(object), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!opened.is_valid()) fail("cannot read " + described, "check that the file is whole");
  const Handle type(H5Aget_type(opened.id()), H5Tclose);
  const Handle space(H5Aget_space(opened.id()), H5Sclose);
  const H5T_class_t type_class = H5Tget_class(type.id());
  const bool fits = is_string ? type_class == H5T_STRING : type_class == H5T_INTEGER || type_class == H5T_FLOAT;
  if (!fits || H5Sget_simple_extent_npoints(space.id()) != 1) {
    fail_because("cannot use " + described, is_string ? "it is not one text" : "it is not one number",
                 "check that the file is what it should be");
  }
  return opened;
}

void Hdf5File::Impl::write_attribute(const std::string& name, const std::string& object, hid_t stored_type, hid_t type,
                                     const void* value) {
  const std::string problem = "cannot write " + describe(name, object);
  const char* where = object_path(object);
  if (H5Aexists_by_name(file.id(), where, name.c_str(), H5P_DEFAULT) > 0) {
    H5Adelete_by_name(file.id(), where, name.c_str(), H5P_DEFAULT);
  }
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle created(
      H5Acreate_by_name(file.id(), where, name.c_str(), stored_type, space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  if (!created.is_valid() || H5Awrite(created.id(), type, value) < 0) fail(problem, "free space on the disk");
}

bool Hdf5File::has_attribute(const std::string& name, const std::string& object) const {
  const Hdf5Lock lock;
  return H5Aexists_by_name(impl_->file.id(), object_path(object), name.c_str(), H5P_DEFAULT) > 0;
}

std::string Hdf5File::read_string(const std::string& name, const std::string& object) const {
  const Hdf5Lock lock;
  const Handle attribute = impl_->attribute(name, object, true);
  const Handle type(H5Aget_type(attribute.id()), H5Tclose);
  if (H5Tis_variable_str(type.id()) > 0) {
    char* text = nullptr;
    if (H5Aread(attribute.id(), type.id(), &text) < 0) {
      impl_->fail("cannot read " + describe(name, object), "check that the file is whole");
    }
    std::string value = text != nullptr ? text : "";
    H5free_memory(text);
    return value;
  }
  std::string value(H5Tget_size(type.id()), '\0');
  if (H5Aread(attribute.id(), type.id(), value.data()) < 0) {
    impl_->fail("cannot read " + describe(name, object), "check that the file is whole");
  }
  switch (H5Tget_strpad(type.id())) {
    case H5T_STR_NULLTERM:  // behind the first zero is what the writer's buffer held
      value.resize(std::min(value.find('\0'), value.size()));
      break;
    case H5T_STR_SPACEPAD:
      value.resize(value.find_last_not_of(' ') + 1);
      break;
    default:
      value.resize(value.find_last_not_of('\0') + 1);
  }
  return value;
}

std::int64_t Hdf5File::read_int(const std::string& name, const std::string& object) const {
  const Hdf5Lock lock;
  const Handle attribute = impl_->attribute(name, object, false);
  const Handle type(H5Aget_type(attribute.id()), H5Tclose);
  if (H5Tget_class(type.id()) != H5T_INTEGER) {
    impl_->fail_because("cannot use " + describe(name, object), "it is no whole number",
                        "check that the file is what it should be");
  }
  std::int64_t value = 0;
  if (H5Aread(attribute.id(), H5T_NATIVE_INT64, &value) < 0) {
    impl_->fail("cannot read " + describe(name, object), "check that the file is whole");
  }
  return value;
}

double Hdf5File::read_float(const std::string& name, const std::string& object) const {
  const Hdf5Lock lock;
  const Handle attribute = impl_->attribute(name, object, false);
  double value = 0.0;
  if (H5Aread(attribute.id(), H5T_NATIVE_DOUBLE, &value) < 0) {
    impl_->fail("cannot read " + describe(name, object), "check that the file is whole");
  }
  return value;
}

void Hdf5File::write_string(const std::string& name, const std::string& value, const std::string& object) {
  const Hdf5Lock lock;
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.id(), std::max<std::size_t>(value.size(), 1));
  H5Tset_strpad(type.id(), H5T_STR_NULLPAD);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  impl_->write_attribute(name, object, type.id(), type.id(), value.c_str());
}

void Hdf5File::write_int(const std::string& name, std::int64_t value, const std::string& object) {
  const Hdf5Lock lock;
  impl_->write_attribute(name, object, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

void Hdf5File::write_float(const std::string& name, double value, const std::string& object) {
  const Hdf5Lock lock;
  impl_->write_attribute(name, object, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

}  // namespace sft::io
