/* See python_functions.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "python_functions.h"

#include <dlfcn.h>
#include <string.h>

struct python_functions python;

static int find_functions(void) {
  static const struct {
    const char *name;
    void *where;
  } wanted[] = {
      {"PyCFunction_NewEx", &python.new_function},
      {"PyInstanceMethod_New", &python.new_method},
      {"PyList_GetItem", &python.list_item},
      {"PyList_SetItem", &python.set_list_item},
      {"PyObject_Call", &python.call},
      {"PyObject_CallFunctionObjArgs", &python.call_with},
      {"PyTuple_New", &python.new_tuple},
      {"PyTuple_SetItem", &python.set_tuple_item},
      {"PyTuple_Size", &python.tuple_size},
      {"PyTuple_GetItem", &python.tuple_item},
      {"PyDict_New", &python.new_dict},
      {"PyDict_SetItem", &python.set_dict_item},
      {"PyModule_GetDict", &python.module_dict},
      {"PyDict_GetItem", &python.dict_item},
      {"PyDict_Next", &python.next_in_dict},
      {"PyObject_Hash", &python.hash},
      {"PyUnicode_InternFromString", &python.intern},
      {"PyFloat_AsDouble", &python.as_double},
      {"PyList_Size", &python.list_size},
      {"PyLong_AsLongLong", &python.as_long},
      {"PyObject_GetAttr", &python.attribute},
      {"PyObject_Type", &python.type_of},
      {"PyType_IsSubtype", &python.is_subtype},
      {"PyErr_CheckSignals", &python.check_signals},
      {"PyErr_Clear", &python.clear_error},
      {"PyErr_ExceptionMatches", &python.error_is},
      {"PyErr_Fetch", &python.fetch_error},
      {"PyErr_Restore", &python.restore_error},
      {"Py_IncRef", &python.incref},
      {"Py_DecRef", &python.decref},
      {"_Py_NoneStruct", &python.none},
      {"_Py_EllipsisObject", &python.ellipsis},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    void *found = dlsym(RTLD_DEFAULT, wanted[i].name);
    if (found == NULL) return 0;
    memcpy(wanted[i].where, &found, sizeof found);
  }
  object **exception = dlsym(RTLD_DEFAULT, "PyExc_Exception");
  if (exception == NULL) return 0;
  python.exception = *exception;
  *(void **)&python.call_array = dlsym(RTLD_DEFAULT, "PyObject_Vectorcall");
  *(void **)&python.frame_instruction = dlsym(RTLD_DEFAULT, "PyFrame_GetLasti");
  *(void **)&python.current_frame = dlsym(RTLD_DEFAULT, "PyEval_GetFrame");
  *(void **)&python.frame_back = dlsym(RTLD_DEFAULT, "PyFrame_GetBack");
  *(void **)&python.frame_code = dlsym(RTLD_DEFAULT, "PyFrame_GetCode");
  python.parts_key = python.intern("parts");
  return python.parts_key != NULL;
}

int python_is_found(void) {
  static int is_known;
  if (!is_known) is_known = find_functions();
  return is_known;
}

int64_t number_from(object *answer) {
  int64_t number = -1;
  if (answer != NULL) {
    number = python.as_long(answer);
    python.decref(answer);
  }
  if (number == -1) python.clear_error();
  return number;
}

object *type_of_living(object *thing) {
  object *type = python.type_of(thing);
  python.decref(type);
  return type;
}
