// SPDX-License-Identifier: Apache-2.0
#include "layering/layering.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>

using namespace sft::test;

namespace {

namespace fs = std::filesystem;

const fs::path source_folder = SFT_SOURCE_DIR;
const fs::path here = source_folder / "tests" / "layering";

/// Places of the lines under `root` that end in the comment "refused".
std::set<std::string> marked_places(const fs::path& root) {
  std::set<std::string> places;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream stream(entry.path());
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      if (!line.ends_with(" refused")) continue;
      places.insert(fs::relative(entry.path(), root).generic_string() + ":" + std::to_string(number));
    }
  }
  return places;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_include_of_the_program_goes_down) {
  for (const Violation& violation : find_violations(source_folder, here / "rooms.txt")) {
    BOOST_ERROR(violation.place << ": " << violation.reason);
  }
}

BOOST_AUTO_TEST_CASE(the_architecture_shows_the_table_of_rooms) {
  const RoomTable table = read_room_table(here / "rooms.txt");
  const FloorTable floors = read_floor_table(here / "rooms.txt");
  for (const Violation& violation : find_document_errors(source_folder / "docs/architecture.md", table, floors)) {
    BOOST_ERROR(violation.place << ": " << violation.reason);
  }
}

BOOST_AUTO_TEST_CASE(every_marked_line_of_the_bad_tree_is_refused_and_no_other) {
  const fs::path tree = here / "bad_tree";
  std::set<std::string> found;
  for (const Violation& violation : find_violations(tree, tree / "rooms.txt")) {
    found.insert(violation.place);
  }
  std::set<std::string> expected = marked_places(tree);
  std::erase_if(expected, [](const std::string& place) { return place.starts_with("bad_tables.md"); });
  BOOST_TEST(expected.size() >= 16u);
  expected.insert("src/attic");          // a folder that is no floor
  expected.insert("src/base/cupboard");  // a folder that is no room
  expected.insert("src/hardware/mesh");  // a room on another floor
  BOOST_TEST(found == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_marked_row_of_a_bad_document_is_refused_and_no_other) {
  const RoomTable table = read_room_table(here / "bad_tree" / "rooms.txt");
  const FloorTable floors = read_floor_table(here / "bad_tree" / "rooms.txt");
  std::set<std::string> found;
  for (const Violation& violation : find_document_errors(here / "bad_tree" / "bad_tables.md", table, floors)) {
    found.insert(violation.place);
  }
  std::set<std::string> expected;
  for (const std::string& place : marked_places(here / "bad_tree")) {
    if (place.starts_with("bad_tables.md")) expected.insert(place);
  }
  BOOST_TEST(expected.size() >= 6u);
  BOOST_TEST(found == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_document_without_a_table_of_rooms_is_refused) {
  const fs::path document = here / "rooms.txt";
  BOOST_TEST(find_document_errors(document, read_room_table(document), read_floor_table(document)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_table_with_a_circle_is_refused) {
  const fs::path file = fs::temp_directory_path() / "sft_layering_circle.txt";
  std::ofstream(file) << "core:\nops: core comm\ncomm: core ops\n";
  BOOST_CHECK_THROW((void)read_room_table(file), std::runtime_error);
  fs::remove(file);
}
