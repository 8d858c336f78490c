// Nothing of its own: who loads this library gets OrtGetApiBase from libtessera, which it depends on.
