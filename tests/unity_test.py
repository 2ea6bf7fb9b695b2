"""Which sources unity.py lets stand together: unity_test.py"""
import os
import tempfile
import unittest

from unity import groups

HEADER = "#pragma once\nnamespace sluice {\nstruct Batch {};\nint ask(int);\n}\n"
# Source -> what it holds. `first` is what the others are tried beside.
FIRST = '#include "batch.h"\nnamespace sluice {\nnamespace {\nconstexpr int pages[] = {1};\n' \
        'struct Taps { int near; };\nint width(const Taps& t) { return t.near + pages[0]; }\n}\nint f() { return width({}); }\n}\n'
TOGETHER = {
    "other names": "namespace sluice {\nnamespace {\nint depth() { return 1; }\n}\n}\n",
    "a member and a parameter": "namespace sluice {\nstruct A { int pages; };\nint g(int width) { return width; }\n}\n",
    "words in a comment and a string": '// struct Taps\nconst char* text() { return "namespace { int width(); }"; }\n',
}
APART = {
    "the same constant": "namespace sluice {\nnamespace {\nconstexpr int pages = 2;\n}\n}\n",
    "the same type": "namespace sluice {\nnamespace {\nclass Taps {};\n}\n}\n",
    "the same function of other parameters": "namespace {\nint width(int of) { return of; }\n}\n",
    "the same static function": "static int width() { return 1; }\n",
    "an alias of the name": "namespace sluice {\nusing Taps = int;\n}\n",
    "a local name that a header of the first declares": "namespace other {\nnamespace {\nint ask(char) { return 1; }\n}\n}\n",
    "a type with a variable": "namespace sluice {\nnamespace {\nstruct {\n  int a;\n} pages;\n}\n}\n",
    "another namespace opened": "using namespace sluice;\nint h();\n",
    "two namespaces opened": "using namespace sluice;\nusing namespace std;\nint h();\n",
    "a macro": "#define LOUD 1\n",
}


class Groups(unittest.TestCase):
    def together(self, text):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in (("batch.h", HEADER), ("first.cpp", FIRST), ("second.cpp", text)):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                    f.write(content)
            return len(groups(folder, [f"{folder}/first.cpp", f"{folder}/second.cpp"])) == 1

    def test_together(self):
        for name, text in TOGETHER.items():
            self.assertTrue(self.together(text), name)

    def test_apart(self):
        for name, text in APART.items():
            self.assertFalse(self.together(text), name)


if __name__ == "__main__":
    unittest.main()
