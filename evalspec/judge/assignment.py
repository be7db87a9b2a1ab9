"""The cheapest one-to-one assignment (Hungarian method), in whole numbers."""

from collections.abc import Sequence


def assign(costs: Sequence[Sequence[int]]) -> list[int]:
    """For each row the column that it gets, such that the total cost is the least; no column twice.

    There must be at least as many columns as rows. Time grows with rows² times columns.
    """
    rows, columns = len(costs), len(costs[0]) if costs else 0
    unlimited = 1 + 4 * sum(max(map(abs, row)) for row in costs)
    row_price, column_price = [0] * (rows + 1), [0] * (columns + 1)
    taken_by = [0] * (columns + 1)  # numbered from 1; 0: nobody, and column 0 holds the row to be placed
    for row in range(1, rows + 1):
        taken_by[0], column = row, 0
        slack, came_from, visited = [unlimited] * (columns + 1), [0] * (columns + 1), [False] * (columns + 1)
        while taken_by[column]:
            visited[column] = True
            placed = taken_by[column]
            for other in range(1, columns + 1):
                reduced = costs[placed - 1][other - 1] - row_price[placed] - column_price[other]
                if not visited[other] and reduced < slack[other]:
                    slack[other], came_from[other] = reduced, column
            nearest = min((other for other in range(1, columns + 1) if not visited[other]), key=slack.__getitem__)
            step = slack[nearest]
            for other in range(columns + 1):
                if visited[other]:
                    row_price[taken_by[other]] += step
                    column_price[other] -= step
                else:
                    slack[other] -= step
            column = nearest
        while column:
            taken_by[column] = taken_by[came_from[column]]
            column = came_from[column]
    columns_of = {taken_by[column]: column - 1 for column in range(1, columns + 1) if taken_by[column]}
    return [columns_of[row] for row in range(1, rows + 1)]
