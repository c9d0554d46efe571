# SPDX-License-Identifier: Apache-2.0
# Comments of the headers are plain text: what Doxygen would take for its commands or for HTML in them is escaped.
{
  begin = index($0, "///")
  if (begin == 0) {
    print
    next
  }
  end = begin + (substr($0, begin + 3, 1) == "<" ? 4 : 3)
  text = substr($0, end)
  gsub(/\\/, "\\\\\\\\", text)
  gsub(/</, "\\&lt;", text)
  gsub(/>/, "\\&gt;", text)
  print substr($0, 1, end - 1) text
}
