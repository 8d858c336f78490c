"""The table of recipes: one function per operator or family, filled by the recipe modules."""

RECIPES = {}


def recipe(*names, domain=""):
    def add(function):
        for name in names:
            RECIPES[domain, name] = function
        return function

    return add
